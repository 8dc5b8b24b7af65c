plugin "liar" {
  command = ["bin/chess"]
}
