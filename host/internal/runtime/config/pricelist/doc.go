// Package pricelist reads dated list prices of models: the shipped list, or the list that an
// operator installed in the data directory.
//
// A price applies to a vendor and to exact model names; a model version with a date suffix has the
// same price. A model without an entry has no price.
//
// Parse returns a List, or every Problem of the text with its position. A List is immutable and
// safe for concurrent use.
package pricelist
