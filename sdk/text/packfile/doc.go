// Package packfile reads language packs from files: what an operator adds to the
// languages that ship.
//
// A file is one map of EDN, in the form of the packs in ../packs:
//
//	{:language "it"
//	 :name "Italian"
//	 :abbreviations "sig dott ecc p.es"
//	 :common "il la di che e un una per non ..."
//	 :example ["esempi*|illustra*"]}
//
// Parse gives the pack and every problem with its place; Read is Parse for a
// program that wants a pack or an error. The pack is a value: nothing is
// registered anywhere. Both are safe for concurrent use.
package packfile
