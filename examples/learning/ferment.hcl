# Three models that are played from a script: which of them is right is drawn by the
# program and part of each question. None of them knows it; the gate does.

ferment {
  profile   = "dev"
  data_dir  = local.data
  lock_file = "${local.data}.lock.hcl"
}

locals {
  bin  = env("FERMENT_EXAMPLE_BIN", "../../bin")
  data = env("FERMENT_EXAMPLE_DATA", "../../var/learning")
}

plugin "models" {
  command = ["${local.bin}/plugins/scripted"]

  config {
    script = "models.edn"
  }
}

capability "demo/small" {
  plugin = "models"
  cost { usd = tonumber(env("USD_small", "0.001")) }
}

capability "demo/medium" {
  plugin = "models"
  cost { usd = tonumber(env("USD_medium", "0.002")) }
}

capability "demo/large" {
  plugin = "models"
  cost { usd = tonumber(env("USD_large", "0.004")) }
}

check "right" {
  condition = contains(request.input.right, result.by)
  message   = "${result.by} is wrong"
}

# The fixed cascade asks the cheapest first and goes on to the next; learned dispatch
# has the same candidates and as many attempts.
dispatch "cascade" {
  policy = env("ORDER", "declared")

  retry {
    same_capability = 0
    fallback        = 2
  }

  learned {
    explore     = 0.05
    cost_weight = 0.2
  }
}

intent "demo/answer" {
  in         = "req/any"
  out        = "res/any"
  candidates = ["demo/small", "demo/medium", "demo/large"]
  dispatch   = "cascade"

  done { must = ["right"] }
}
