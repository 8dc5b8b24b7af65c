package chat

import (
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Event reports progress while a line is executed. It is a value of one of the types below.
type Event any

type (
	// Asking reports the capability that was asked for an answer.
	Asking struct{ Capability string }
	// Piece is a part of the text of an answer that may still be retracted.
	Piece struct{ Text string }
	// Retracted reports that the pieces so far do not belong to the answer.
	Retracted struct{ Reason string }
	// Answer is an accepted answer. Value is the output of the intent.
	Answer struct {
		Text  string
		By    string // the model, else the capability; may be empty
		Value edn.Value
	}
	// Said is an earlier message of the conversation.
	Said struct{ Role, By, Text string }
	// Note is a message of the program itself.
	Note struct{ Text string }
	// Moved reports the change to another conversation or model.
	Moved struct{ Conversation, Model string }
	// Offer is a line that is put into the input for editing. Draft is the id of the unanswered
	// message with this text; empty: there is none.
	Offer struct{ Line, Draft string }
	// Unsent reports that the line succeeded and left the message without an answer that it
	// was made of.
	Unsent struct{}
	// Discarded reports that there are no messages without an answer any more.
	Discarded struct{}
	// Failed reports that a line failed or was canceled. Again is a line with which it can be
	// repeated.
	Failed struct {
		Err      *contract.Error
		Again    Offer
		Canceled bool
	}
	// Quit ends the talk.
	Quit struct{}
)
