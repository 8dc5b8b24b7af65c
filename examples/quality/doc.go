// Command quality compares quality-aware dispatch with orders that learn nothing.
//
// Three chess engines are asked for moves. All orders have the same engines, the same questions and
// two attempts per question. An answer is accepted if it is the move that a search of five plies
// prefers, which no engine has. Three portfolios differ in what an engine of a price is worth; in
// one of them there is nothing to learn. Each is asked with several seeds, which choose and shuffle
// the questions. The program prints means with their standard deviation, and for every pair of
// orders whether the difference is larger than chance. It says so if quality-aware dispatch does
// not win; that is not an error.
//
// Run it from the root of the repository after "make build".
package main
