// Command learning compares learned dispatch with a fixed cascade while the models change.
//
// Three models answer the same questions in the order of the cascade, which is by price, and in an
// order that is learned from the gate. Whether a model is right about a question is drawn
// beforehand, so that both orders get the same outcomes. In three portfolios the rates of the
// models change half way; in the last one the cascade is right, and there is nothing to learn. The
// program prints, over several seeds, how far the model that was asked first was from the best one
// (regret) and what an accepted answer cost, and whether the difference is larger than chance. It
// says so if learned dispatch loses; that is not an error.
//
// Run it from the root of the repository after "make build".
package main
