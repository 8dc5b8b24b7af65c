module example.test/crash

go 1.26
