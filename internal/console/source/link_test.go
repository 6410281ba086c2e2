package source

import "testing"

func TestBelow(t *testing.T) {
	for to, want := range map[string]string{
		"/ui/jobs?q=x": "/ui/jobs?q=x", "": "/ui/", "/": "/ui/", "/metrics": "/ui/", "https://evil.example/ui/": "/ui/", "//evil.example/ui/": "/ui/",
		"/ui/\\evil": "/ui/", "javascript:alert(1)": "/ui/", "/ui/\r\nSet-Cookie: x": "/ui/", "/ui/%": "/ui/",
	} {
		if got := Below(to, "/ui/"); got != want {
			t.Errorf("%q leads to %q, want %q", to, got, want)
		}
	}
}
