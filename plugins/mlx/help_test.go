package main

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/mlx/internal/settings"
	"github.com/fermenthq/ferment/sdk/edn"
)

// settingsOf returns the defaults overridden by a text.
func settingsOf(t testing.TB, text string) settings.Settings {
	t.Helper()
	s := settings.Defaults()
	require.NoError(t, edn.DecodeStrict(edn.MustRead(`{:model "m" :serve {"voice" {}}}`).Merge(edn.MustRead(text)), &s))
	return s
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
