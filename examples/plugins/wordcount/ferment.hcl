ferment {
  profile = "dev" # starts what is being worked on; elsewhere "ferment plugin lock" approves it first
}

# One plugin and no intent block: the intent that the plugin advertises is
# implied, with the schemas of its capability.
plugin "wordcount" {
  command = ["wordcount"]
}
