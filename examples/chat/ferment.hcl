# An agent that answers with a chess engine, a SAT solver and the texts about a
# directory. Without a server the model is played from a script; MODEL_URL names a
# real one that can call tools.

ferment {
  profile   = "dev"
  data_dir  = local.data
  lock_file = "${local.data}.lock.hcl"
}

locals {
  bin    = env("FERMENT_EXAMPLE_BIN", "../../bin")
  data   = env("FERMENT_EXAMPLE_DATA", "../../var/chat")
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
    preset   = env("MODEL_PRESET", "vllm")
    api_key  = env("MODEL_KEY", "") == "" ? null : secret("env:MODEL_KEY")

    model "any" {
      name    = env("MODEL_NAME", "default")
      intents = ["model/chat"]

      price { free = true }
    }
  }
}

# What stands in for a model: it asks for three tools and words what they return.
plugin "stand-in" {
  command = ["${local.bin}/plugins/scripted"]
  enabled = !local.served

  config {
    script = "model.edn"
  }
}

plugin "chess" {
  command = ["${local.bin}/plugins/chess"]
}

plugin "sat" {
  command = ["${local.bin}/plugins/sat"]
}

# The notes are those of examples/context; the texts about them are kept apart.
plugin "workspace" {
  command = ["${local.bin}/plugins/workspace"]

  isolation {
    read_paths  = ["../context/notes"]
    write_paths = ["${local.data}/workspace"]
  }

  config {
    default_agent = "synthesis"
    allowed_roots = ["../context/notes"]
    data_dir      = "${local.data}/workspace"
  }
}

# The agent. A capability is a tool for each of its intents; of an intent the host
# chooses the capability and applies its gates.
plugin "agent" {
  command = ["${local.bin}/plugins/agent"]

  config {
    agent "assistant" {
      description  = "Answers questions about chess positions, formulas and the notes."
      instructions = "Answer with what your tools return. If they do not tell, say so."
      intents      = ["chess/best-move", "sat/solve"]
      capabilities = ["context/get-node"]
      effects      = ["db/read"]
    }
  }
}

effects {
  scope "db/read" { enabled = true }

  scope "db/write" { enabled = true }
}

check "legal-move" {
  intent = "chess/verify-move"
}

intent "chess/best-move" {
  in         = "req/chess.position"
  out        = "res/chess.move+pv+eval"
  candidates = ["chess/engine"]

  done { must = ["schema-valid", "legal-move"] }
}

intent "model/chat" {
  in         = "req/chat"
  out        = "res/chat"
  candidates = local.served ? ["compatible/any"] : ["model/stand-in"]
}

intent "agent/run" {
  in         = "req/agent.run"
  out        = "res/agent.run"
  candidates = ["agent/assistant"]
  effects    = ["db/read"]
  stream     = "provisional"
}
