# Two effects, each below one directory: a plan may read what lies in data/in
# and write what it makes of it to data/out. Two more, in one database: a plan
# may read it and change it. Nothing else is enabled.

ferment {
  data_dir  = "../../var/effects"
  lock_file = "../../var/effects.lock.hcl"
  profile   = "dev"
}

plugin "tools" {
  command = ["../../bin/plugins/tools"]
}

plugin "db" {
  command = ["../../bin/plugins/db"]
}

plugin "text" {
  command = ["../../bin/plugins/text"]
}

effects {
  enforcement = "strict"

  scope "fs/read" {
    enabled = true
    roots   = ["data"]
    allow   = ["in"]
  }

  scope "fs/write" {
    enabled   = true
    roots     = ["data"]
    allow     = ["out"]
    max_bytes = "64KiB"
  }

  # A database is in a directory without other files: its engine makes files
  # beside it.
  db "notes" {
    driver = "sqlite"
    path   = "data/db/notes.db"
  }

  scope "db/read" {
    enabled     = true
    connections = ["notes"]
    max_rows    = 100
  }

  scope "db/write" {
    enabled     = true
    connections = ["notes"]
    ddl         = true # the plan makes its table
  }
}
