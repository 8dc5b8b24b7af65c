locals {
  a = 1
}

dispatch "slow" {}

check "short" {
  builtin = "max-chars"
}

schema "a/b" {
  spec = edn(":any")
}

dispatch "default" {
  switch_on = ["canceled"]
}
