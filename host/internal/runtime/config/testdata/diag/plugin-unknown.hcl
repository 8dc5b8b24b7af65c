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

plugin "script" {
  command = ["bin/chess"]
  files   = ["ferment.hcl", "absent.py", "fermnt.hcl"]
}

plugin "shell" {
  command = ["sh", "run.sh"]
}
