module example.test/mixed

go 1.26
