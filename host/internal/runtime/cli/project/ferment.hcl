# A whole installation in one file: a plugin, two capabilities, a check, an intent. "ferment validate" reports what
# does not fit, "ferment config docs" prints every block and attribute.

# The profile for developing: local callers need no credentials, and the daemon reloads when this file changes.
ferment {
  profile = "dev"
}

# A plugin is one process. This one plays the answers of a script. To put a program of your own in its place:
# ferment plugin new greeter --kind tool --lang go
plugin "greeter" {
  command = ["bin/plugins/scripted"]

  config {
    script = "greeter.edn"
  }
}

# An answer that fails this check is not accepted.
check "polite" {
  condition = startswith(result.text, "Hello")
  message   = "begins with Hello"
}

# After a refused answer or a crash, the next candidate is called.
dispatch "default" {
  retry { fallback = 1 }
}

# What callers ask for, which capabilities may serve it, and what an answer must pass.
intent "text/respond" {
  in         = "req/text"
  out        = "res/text"
  candidates = ["greeter/curt", "greeter/polite"]

  done { must = ["schema-valid", "polite"] }
}
