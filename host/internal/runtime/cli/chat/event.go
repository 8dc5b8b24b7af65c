package chat

import (
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Event is what happens while a line is executed: a value of one of the types below.
type Event any

type (
	// Asking reports the capability that was asked for an answer.
	Asking struct{ Capability string }
	// Piece is a part of the text of an answer that is not accepted yet.
	Piece struct{ Text string }
	// Retracted reports that the pieces so far are not part of the answer.
	Retracted struct{ Reason string }
	// Answer is an accepted answer. Value is the output of the intent.
	Answer struct {
		Text  string
		By    string // the model, else the capability; may be empty
		Value edn.Value
	}
	// Said is a message of the conversation that was there before.
	Said struct{ Role, By, Text string }
	// Note is a text of the program.
	Note struct{ Text string }
	// Moved reports another conversation or model.
	Moved struct{ Conversation, Model string }
	// Offer is a line for the input. Draft is the id of the message without an answer
	// that the line is; empty: it is none.
	Offer struct{ Line, Draft string }
	// Unsent reports that the line succeeded and left the message without an answer that it
	// was made of.
	Unsent struct{}
	// Discarded reports that there are no messages without an answer any more.
	Discarded struct{}
	// Failed ends a line that failed or was canceled. Again is what can be tried again.
	Failed struct {
		Err      *contract.Error
		Again    Offer
		Canceled bool
	}
	// Quit ends the talk.
	Quit struct{}
)
