module example.test/skipped

go 1.26
