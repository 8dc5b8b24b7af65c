module example.test/broken

go 1.26
