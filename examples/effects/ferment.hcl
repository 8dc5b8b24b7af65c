# Two effects, each below one directory: a plan may read what lies in data/in
# and write what it makes of it to data/out. Nothing else is enabled.

ferment {
  data_dir  = "../../var/effects"
  lock_file = "../../var/effects.lock.hcl"
  profile   = "dev"
}

plugin "tools" {
  command = ["../../bin/plugins/tools"]
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
}
