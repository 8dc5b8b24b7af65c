package text

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// RTE-001: requests to run the tests of a program are found in all languages; those that
// only speak of tests are other work, or none.
func TestRequestsToRunTests(t *testing.T) {
	for intent, all := range map[string][]string{
		"code/test": {
			"Run the tests", "run all tests please", "can you run the unit tests of this package?", "Please execute the test suite.",
			"rerun the tests in ./sdk and tell me the result",
			"Uruchom testy", "odpal proszę wszystkie testy jednostkowe", "Czy możesz uruchomić testy tego pakietu?",
			"Führe die Tests aus", "Bitte lass alle Tests laufen.", "Kannst du die Unit-Tests ausführen?",
			"Lance les tests", "Exécute tous les tests unitaires, s'il te plaît.", "Peux-tu relancer la suite de tests ?",
			"Ejecuta los tests", "Corre todas las pruebas unitarias, por favor.", "¿Puedes ejecutar las pruebas de este paquete?",
		},
		"code/patch": {"The tests fail when I run them, fix the parser.", "Napraw funkcję, bo po uruchomieniu testów leci wyjątek."},
		"code/generate": {
			"Write a script that runs the tests every hour.", "Write unit tests for this function.",
			"Potrzebuję skryptu, który co noc uruchamia testy.", "Schreib ein Skript, das vor jedem Commit die Tests laufen lässt.",
			"Un script qui lance les tests à chaque commit", "Un script que ejecute las pruebas en cada commit",
		},
		"code/explain":  {"Explain what this function does when the tests run."},
		"problem/solve": {"Which exams does a runner have to pass?"},
	} {
		for _, said := range all {
			assert.Equal(t, intent, intentOf(said), said)
		}
	}
}
