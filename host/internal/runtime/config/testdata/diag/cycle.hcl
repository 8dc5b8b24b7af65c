locals {
  a = local.b
  b = "${local.c}!"
  c = local.a
}

check "one" {
  intent = "a/two"
}

check "two" {
  intent = "a/one"
}

intent "a/one" {
  in     = "req/any"
  out    = "res/any"
  checks = ["one"]
}

intent "a/two" {
  in  = "req/any"
  out = "res/any"

  done {
    should = ["two"]
  }
}
