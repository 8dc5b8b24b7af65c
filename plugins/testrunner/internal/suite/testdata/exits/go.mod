module example.test/exits

go 1.26
