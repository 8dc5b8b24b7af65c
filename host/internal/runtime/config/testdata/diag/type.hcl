ferment {
  seed      = "6"
  max_nodes = 1.5
  mode      = true
  data_dir  = secret("env:X")
  requires  = "newest"
}

plugin "chess" {
  command       = "bin/chess"
  optional      = "true"
  start_timeout = 10
  stop_grace    = "10 seconds"
  max_message   = "big"
  env           = ["A"]
}

dispatch "default" {
  deadline = "soon"
  retry    = 2
}

check "a" {
  condition = "yes"
  message {
  }
}

capability "chess/engine" {
  plugin = check.a

  cost {
    usd = "cheap"
  }
}

schema "a/b" {
  spec = edn("[:map [:a :strng]]")
}

schema "a/heredoc" {
  spec = edn(<<-EOT
    [:map
      [:name :string]
      [:age [:int {:mn 1}]]]
    EOT
  )
}
