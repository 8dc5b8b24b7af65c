module example.test/flood

go 1.26
