plugin "old" {
  command = ["bin/chess"]

  config {
    level = 3
  }
}
