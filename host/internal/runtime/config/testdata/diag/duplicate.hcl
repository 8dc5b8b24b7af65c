ferment {
  seed = 1
  seed = 2
}

plugin "chess" {
  command = ["bin/chess"]
  env     = { A = "1", A = "2" }
}

plugin "stockfish" {
  command = ["bin/chess"]
}

check "short" {
  builtin   = "max-chars"
  condition = true
}

check "short" {
  builtin = "max-chars"
}

dispatch "quality-first" {}

dispatch "quality_first" {}

locals {
  a = 1
}

locals {
  a = 2
}
