module example.test/hangs

go 1.26
