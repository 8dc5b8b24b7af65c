module example.test/brokentest

go 1.26
