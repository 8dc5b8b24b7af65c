module example.test/hungry

go 1.26
