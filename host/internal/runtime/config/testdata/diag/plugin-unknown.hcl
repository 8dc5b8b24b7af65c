plugin "chess" {
  command = ["bin/chess"]
}

plugin "gone" {
  command = ["bin/gone"]
}

plugin "perhaps" {
  command  = ["bin/perhaps"]
  optional = true
}
