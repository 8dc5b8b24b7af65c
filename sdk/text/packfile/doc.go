// Package packfile reads an operator's language packs from files.
//
// A file is one map of EDN, in the form of the packs in ../packs:
//
//	{:language "it"
//	 :name "Italian"
//	 :abbreviations "sig dott ecc p.es"
//	 :common "il la di che e un una per non ..."
//	 :example ["esempi*|illustra*"]}
//
// [Parse] returns the pack of a file and every problem with its position. [Load]
// reads files and returns the shipped packs with theirs, or an error. Both are safe
// for concurrent use.
package packfile
