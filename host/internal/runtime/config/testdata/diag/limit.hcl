check "a" {
  condition = alltrue([for x in result.list : alltrue([for y in x : y > 1])])
}

check "b" {
  condition = length([[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]) > 0
}
