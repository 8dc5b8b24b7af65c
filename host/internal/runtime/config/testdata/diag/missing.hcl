plugin "chess" {}

capability "chess/engine" {}

intent "text/respond" {}

check "nothing" {}
