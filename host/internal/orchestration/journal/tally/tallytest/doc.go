// Package tallytest draws records of runs with the counts that they have to give.
package tallytest
