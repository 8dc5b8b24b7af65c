package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	sdkconversation "github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
)

// storedConversations compares commits and forks of conversations on disk with SQLite alone.
func storedConversations(p pace) (rows []row, err error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := store.Open(context.Background(), store.Options{Path: filepath.Join(dir, "ferment.db")})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	bare, err := openBareCommit(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bare.db.Close()) }()
	t := &talkers{service: conversation.New(s.Conversations(), nil, conversation.Rules{}, nil)}
	if err := errors.Join(t.fill(), fillIDs(bare.db)); err != nil {
		return nil, err
	}
	took, err := inTurns(p, 5, t.commit, bare.commit, t.fork, func() error { return copyIDs(bare.db) })
	if err != nil {
		return nil, err
	}
	return []row{
		against("commit of 2 messages, 500 bytes", took[0], "a bare transaction of 500 bytes", took[1], 1.3),
		against("fork of 10,000 turns", took[2], "copying as many ids", took[3], 2),
	}, nil
}

// talkers holds two conversations: short, which grows by commits, and long, which is forked.
type talkers struct {
	service *conversation.Service
	n       int
}

func (t *talkers) call(intent string, input edn.Value) error {
	t.n++
	_, err := t.service.Do(context.Background(), conversation.Call{
		Caller: session.Caller{Principal: "ann"}, Intent: "conversation/" + intent, Input: input, Key: fmt.Sprint(t.n), Path: edn.Vector(),
	})
	if err != nil {
		return err
	}
	return nil
}

func (t *talkers) fill() error {
	messages := make([]edn.Value, manyMessages)
	for i := range messages {
		m := sdkconversation.User(fmt.Sprint("question ", i))
		if i%2 == 1 {
			m = sdkconversation.Assistant(fmt.Sprint("answer ", i))
		}
		messages[i] = contract.MessageValue(m)
	}
	long := edn.MustMap(edn.K("conversation/id"), edn.Text("long"))
	return errors.Join(
		t.call("open", edn.MustMap(edn.K("conversation/id"), edn.Text("short"))), t.call("open", long),
		t.call("append", long.AssocKey("messages", edn.Vector(messages...))))
}

// commit appends a question and an answer with new text.
func (t *talkers) commit() error {
	said := fmt.Sprint(t.n, " ", strings.Repeat("word ", 45))
	return t.call("append", edn.MustMap(edn.K("conversation/id"), edn.Text("short"), edn.K("messages"), edn.Vector(
		contract.MessageValue(sdkconversation.User("q"+said)), contract.MessageValue(sdkconversation.Assistant("a"+said)))))
}

func (t *talkers) fork() error {
	return t.call("fork", edn.MustMap(edn.K("conversation/id"), edn.Text("long")))
}

// fillIDs creates a table with a list of ids.
func fillIDs(db *sql.DB) error {
	_, err := db.Exec(`CREATE TABLE ids (n INTEGER PRIMARY KEY, list INTEGER, position INTEGER, turn INTEGER, span INTEGER);
		CREATE INDEX ids_list ON ids (list, position)`)
	if err == nil {
		_, err = db.Exec(`WITH RECURSIVE each (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM each WHERE i + 1 < ?)
			INSERT INTO ids (list, position, turn, span) SELECT 1, i, i, i FROM each`, manyMessages)
	}
	return err
}

func copyIDs(db *sql.DB) error {
	_, err := db.Exec(`INSERT INTO ids (list, position, turn, span)
		SELECT (SELECT max(list) + 1 FROM ids), position, turn, span FROM ids WHERE list = 1 ORDER BY position`)
	return err
}
