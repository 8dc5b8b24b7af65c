package expression

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A decimal is formatted as in the file, by both the fast and the slow path.
func TestDecimalText(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(3, 4))
	texts := []string{"0.1", "0.3", "1e-300", "5e-324", "1e-400", "0.12345678901234567", "0.1234567890123456789012345", "123456789.000000001", "1e305", "0.30000000000000004"}
	for range 2000 {
		texts = append(texts, big.NewFloat(dice.ExpFloat64()).Text('g', 1+dice.IntN(20)))
	}
	for _, text := range texts {
		for _, sign := range []string{"", "-"} {
			f, _, err := big.ParseFloat(sign+text, 10, 512, big.ToNearestEven)
			require.NoError(t, err)
			assert.Equal(t, f.Text('f', -1), decimalText(f), text)
		}
	}
}
