module example.test/forged

go 1.26
