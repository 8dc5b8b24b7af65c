# The configuration that runs on a fresh machine: every plugin here is built
# with this repository and needs no network, no model and no account. What only
# some machines have (a chess program) is optional and comes first where it is.

# The profile for working on plugins. The build writes the lock file beside the
# programs whose hashes it holds; an installation keeps its own.
ferment {
  profile   = "dev"
  data_dir  = "var"
  lock_file = "bin/ferment.lock.hcl"
}

# --- plugins: one process each ---------------------------------------------

# Chess with the engine of this repository.
plugin "chess" {
  command = ["bin/plugins/chess"]

  config {
    engine = "builtin"
    depth  = 4
  }
}

# The same binary again, with a second and shallower search: the candidate that
# takes over when the process of the first one dies.
plugin "chess-reserve" {
  command = ["bin/plugins/chess"]

  config {
    engine = "builtin"
    depth  = 3
  }
}

# The same binary with a program that speaks UCI, where one is installed.
# PATH is the only variable of the host that it sees.
plugin "stockfish" {
  command  = ["bin/plugins/chess"]
  optional = true
  env_pass = ["PATH"]

  # The one program that it may run; Debian keeps it among the games.
  isolation { exec = ["stockfish", "/usr/games"] }

  config {
    engine = "uci"
    path   = "stockfish"
    depth  = 12
  }
}

# Satisfiability; each formula is solved in a process that can be killed.
plugin "sat" {
  command = ["bin/plugins/sat"]
}

# Test suites and patches. It runs programs, so it gets the variables that the
# Go toolchain needs, and nothing else of the host's environment.
plugin "testrunner" {
  command  = ["bin/plugins/testrunner"]
  env_pass = ["PATH", "HOME", "GOCACHE", "GOMODCACHE", "GOFLAGS", "GOPROXY", "GOTOOLCHAIN"]

  # What is tested is read where it lies and changed only in a copy; beside its
  # own scratch directory tests may write the cache of the toolchain. There is
  # no network: the modules of a suite have to be there.
  isolation {
    exec        = ["go", "sh", "/bin", "/usr/bin", "/usr/lib"]
    read_paths  = [".", env("GOMODCACHE", "${env("HOME", "/root")}/go")]
    write_paths = [env("GOCACHE", "${env("HOME", "/root")}/.cache/go-build")]
  }
}

# Effect tools: files, programs, requests. What they may touch is said by the
# effects block below, and nothing is enabled.
plugin "tools" {
  command = ["bin/plugins/tools"]
}

# Summaries, templates and classification without a model.
plugin "text" {
  command = ["bin/plugins/text"]
}

# A language model, where a key is in the environment. Without one nothing of it
# is started. plugins/llm/README.md has other providers and servers of one's own.
plugin "openai" {
  command  = ["bin/plugins/llm"]
  enabled  = env("OPENAI_API_KEY", "") != ""
  optional = true

  isolation { network = "ports" }

  config {
    provider = "openai"
    api_key  = secret("env:OPENAI_API_KEY")

    model "meta" {
      name    = env("OPENAI_MODEL", "gpt-5-mini")
      intents = ["context/summarize", "text/respond", "model/chat"]
    }
  }
}

# --- capabilities: plugins of one binary advertise the same ids, so all but
# --- one of them get names of their own ------------------------------------

capability "chess/embedded" {
  plugin   = "chess"
  provides = "chess/engine"
}

capability "chess/reserve" {
  plugin   = "chess-reserve"
  provides = "chess/engine"
}

capability "reserve/rules" {
  plugin   = "chess-reserve"
  provides = "chess/rules"
  enabled  = false
}

capability "chess/stockfish" {
  plugin   = "stockfish"
  provides = "chess/engine"
}

capability "stockfish/rules" {
  plugin   = "stockfish"
  provides = "chess/rules"
  enabled  = false
}

# --- effects: what calls may change or read in the world -----------------------

# A scope that is not enabled permits nothing, whoever asks. examples/effects has
# a configuration with two that are.
effects {
  scope "fs/read" { enabled = false }

  scope "fs/write" { enabled = false }

  scope "process/run" { enabled = false }

  scope "net/http" { enabled = false }
}

# --- checks: what an answer has to pass -------------------------------------

# Asks the rules whether the move can be played.
check "legal-move" {
  intent = "chess/verify-move"
}

# Puts the model into every clause. An answer without a model has nothing to
# put in.
check "model-holds" {
  intent  = "sat/verify"
  applies = result.status == "sat"
}

# --- dispatch: what happens when a candidate fails ---------------------------

# A crash, a refused gate or silence moves the call to the next candidate; the
# same candidate is asked once more when its process was lost.
dispatch "default" {
  retry {
    same_capability = 1
    fallback        = 2
  }
}

# --- intents: what may be asked for ------------------------------------------

intent "chess/best-move" {
  in         = "req/chess.position"
  out        = "res/chess.move+pv+eval"
  candidates = ["chess/stockfish", "chess/embedded", "chess/reserve"]

  done { must = ["schema-valid", "legal-move"] }
}

intent "sat/solve" {
  in         = "req/sat.solve"
  out        = "res/sat.solve"
  candidates = ["sat/solver"]

  done { must = ["schema-valid", "model-holds"] }
}

intent "context/summarize" {
  in         = "req/context"
  out        = "res/context-summary"
  candidates = concat(env("OPENAI_API_KEY", "") == "" ? [] : ["openai/meta"], ["text/extractive"])
}
