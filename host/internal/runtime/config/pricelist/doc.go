// Package pricelist reads dated list prices of models: the list that ships with
// the host, or the one that an operator installed in the data directory instead.
//
// A price belongs to a vendor and to models that are named exactly; a version of
// such a model with a day behind its name has the same price. Nothing is guessed:
// a model that no entry names has no price.
//
// Parse returns a List, or every Problem of the text with its place. A List is a
// value and safe for concurrent use.
package pricelist
