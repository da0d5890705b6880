package api

import "testing"

// Who has the secrets of a configuration can tell what an edge shows of it, whatever their order; a longer one goes before a part of it.
func TestWithoutSecrets(t *testing.T) {
	const text = "password: \"a\\\"b\"\nother: 'it''s'\nname: web\nlonger: webber secret"
	const want = "password: \"(secret)\"\nother: '(secret)'\nname: (secret)\nlonger: (secret) (secret)"
	for _, secrets := range [][]string{{`a"b`, "it's", "web", "webber", "secret"}, {"secret", "webber", "", "web", "web", "it's", `a"b`}} {
		if got := WithoutSecrets(text, secrets); got != want {
			t.Errorf("%q:\n%s\nwant\n%s", secrets, got, want)
		}
	}
}
