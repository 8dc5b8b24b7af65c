check "a" {
  condition = alltrue([for x in result.list : alltrue([for y in x : y > 1])])
}

locals {
  a = [for x in range(10000) : "${x}-${join(",", [for y in range(1000) : "${y}"])}"]
}

check "b" {
  builtin = "max-chars"
  params  = { list = local.a }
}
