package format

import (
	"math/big"
	"net/url"
	"testing"

	"pgregory.net/rapid"
)

// Own code instead of packages that every program would link agrees with these packages.
func TestWithoutLargePackages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.StringMatching(`[+-]?(0{0,2}[0-9]{1,3}(\.[0-9]{0,3})?|\.[0-9]{1,2})`)
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		x, ok := new(big.Rat).SetString(a)
		y, ok2 := new(big.Rat).SetString(b)
		if got := compareDecimals(a, b); !ok || !ok2 || got != x.Cmp(y) {
			t.Fatalf("%s and %s compare as %d, want %d", a, b, got, x.Cmp(y))
		}
		text := rapid.StringMatching(`([a%]|%[0-9a-fA-Fg]{2}){0,6}`).Draw(t, "text")
		want, err := url.PathUnescape(text)
		if err != nil {
			want = text
		}
		if got := unescapePath(text); got != want {
			t.Fatalf("%q is decoded as %q, want %q", text, got, want)
		}
	})
}
