dispatch "default" {
  deadline = env("DEADLINE")
}

plugin "chess" {
  command = ["bin/${env("ENGINE")}"]
}
