# Language models in three plans: one that solves and then words the solution, one
# whose gates refuse what a model cut short, one that grades an answer. Without a
# server the models are played from a script; MODEL_URL names a real one.

ferment {
  profile   = "dev"
  data_dir  = env("FERMENT_EXAMPLE_DATA", "../../var/models")
  lock_file = "${env("FERMENT_EXAMPLE_DATA", "../../var/models")}.lock.hcl"
}

locals {
  bin    = env("FERMENT_EXAMPLE_BIN", "../../bin")
  served = env("MODEL_URL", "") != ""
}

# Any server with a chat/completions endpoint.
plugin "server" {
  command  = ["${local.bin}/plugins/llm"]
  enabled  = local.served
  optional = true

  isolation { network = "ports" }

  config {
    provider = "compatible"
    base_url = env("MODEL_URL", "http://127.0.0.1:1/v1")
    preset   = env("MODEL_PRESET", "generic")
    api_key  = env("MODEL_KEY", "") == "" ? null : secret("env:MODEL_KEY")

    model "any" {
      name    = env("MODEL_NAME", "default")
      intents = ["problem/solve", "text/respond", "context/summarize", "model/chat"]

      price { free = true }
    }
  }
}

# What stands in for a model: the same answers every time.
plugin "stand-in" {
  command = ["${local.bin}/plugins/scripted"]
  enabled = !local.served

  config {
    script = "models.edn"
  }
}

# Summaries without a model.
plugin "text" {
  command = ["${local.bin}/plugins/text"]
}

# Grades: with a model where there is one, and by what can be counted.
plugin "judge" {
  command = ["${local.bin}/plugins/judge"]
}

# Whoever fails, or is refused by a gate, is followed by the next candidate.
dispatch "default" {
  retry {
    fallback = 1
  }
}

intent "problem/solve" {
  in         = "req/problem"
  out        = "res/problem"
  candidates = local.served ? ["compatible/any"] : ["model/solver"]
}

intent "text/respond" {
  in         = "req/text"
  out        = "res/text"
  candidates = local.served ? ["compatible/any"] : ["model/voice"]

  done {
    must = ["schema-valid", "no-truncated-ending"]
  }
}

intent "context/summarize" {
  in         = "req/context"
  out        = "res/context-summary"
  candidates = local.served ? ["compatible/any", "text/extractive"] : ["model/hasty", "text/extractive"]

  done {
    must = ["schema-valid", "no-truncated-ending", "numbers-from-source"]
  }
}

intent "eval/grade" {
  in         = "req/eval"
  out        = "res/eval"
  candidates = local.served ? ["judge/rubric", "judge/rules"] : ["judge/rules"]
}

intent "model/chat" {
  in         = "req/chat"
  out        = "res/chat"
  candidates = local.served ? ["compatible/any"] : []
}
