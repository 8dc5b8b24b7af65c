module example.test/green

go 1.26
