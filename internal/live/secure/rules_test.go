package secure

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var testRules = Rules{Pools: map[string]Pool{
	"etl":    {Submit: []string{"ana", "@data"}, Manage: []string{"@ops"}},
	"closed": {}, "default": {Submit: []string{"ana"}},
	"public": {Submit: []string{"*"}},
}}

func TestMay(t *testing.T) {
	ana := Identity{User: "ana", Role: User}
	bob := Identity{User: "bob", Role: User, Groups: []string{"data"}}
	olga := Identity{User: "olga", Role: User, Groups: []string{"ops", "night"}}
	root := Identity{User: "root", Role: Admin}
	w1 := Identity{User: "w1", Role: Worker}
	m := Identity{User: "m", Role: Master}
	open := Identity{Role: Admin, Open: true}
	job := Subject{Job: "j1", Owner: "ana", Pool: "etl"}
	into := func(pool string) Subject { return Subject{Job: "j1", Owner: "ana", From: "default", Pool: pool} }
	for _, tt := range []struct {
		id     Identity
		action Action
		on     Subject
		why    string // "" if he may
	}{
		{ana, View, job, ""},
		{w1, View, job, "a worker may not view jobs"},
		{Identity{}, View, job, "an unauthenticated client may not"},
		{Identity{User: "ana", Role: "king"}, View, job, "an unauthenticated client may not"},

		{ana, Submit, Subject{Owner: "ana", Pool: "etl"}, ""},
		{ana, Submit, Subject{Pool: "etl"}, ""},
		{bob, Submit, Subject{Owner: "bob", Pool: "etl"}, ""},
		{olga, Submit, Subject{Owner: "olga", Pool: "etl"}, ""},
		{Identity{User: "eve", Role: User}, Submit, Subject{Pool: "etl"}, "eve may not submit to pool etl; ana, @data may"},
		{Identity{User: "data", Role: User}, Submit, Subject{Pool: "etl"}, "data may not submit to"},
		{Identity{User: "@data", Role: User}, Submit, Subject{Pool: "etl"}, ""}, // no token or certificate check admits that name
		{ana, Submit, Subject{Owner: "bob", Pool: "etl"}, "may not submit as bob"},
		{root, Submit, Subject{Owner: "bob", Pool: "closed"}, ""},
		{ana, Submit, Subject{Pool: "closed"}, "only an admin may"},
		{ana, Submit, Subject{Pool: "public"}, ""},
		{ana, Submit, Subject{Pool: "unlisted"}, ""},
		{ana, Submit, Subject{}, ""},
		{bob, Submit, Subject{}, "bob may not submit to pool default; ana may"},
		{w1, Submit, Subject{Owner: "w1", Pool: "unlisted"}, "a worker may not submit to"},
		{open, Submit, Subject{Owner: "anyone", Pool: "closed"}, ""},

		{ana, Change, job, ""},
		{bob, Change, job, "job j1 belongs to ana: only ana or an admin may change it"},
		{olga, Change, job, ""},
		{olga, Change, Subject{Job: "j2", Owner: "ana", Pool: "public"}, "job j2 belongs to ana"},
		{root, Change, job, ""},
		{w1, Change, job, "may not change"},
		{Identity{Role: User}, Change, Subject{Job: "j3"}, "job j3"},

		{ana, Move, into("public"), ""},
		{ana, Move, into("closed"), "may not move jobs to pool closed"},
		{bob, Move, into("etl"), "job j1 belongs to ana"},
		{olga, Move, Subject{Job: "j1", Owner: "ana", From: "etl", Pool: "public"}, ""},
		{olga, Move, Subject{Job: "j1", Owner: "ana", From: "public", Pool: "etl"}, "job j1 belongs to ana"},

		{ana, Policy, Subject{}, "only an admin may change the policy"},
		{ana, Nodes, Subject{}, "only an admin may drain nodes"},
		{ana, Members, Subject{}, "only an admin may change the masters"},
		{root, Policy, Subject{}, ""},
		{w1, Nodes, Subject{}, "may not"},

		{w1, Serve, Subject{}, ""},
		{m, Serve, Subject{}, "a master may not act"},
		{m, ReadLogs, Subject{}, ""},
		{ana, ReadLogs, Subject{}, "only an admin may"},
		{w1, ReadLogs, Subject{}, "may not"},
		{ana, Scrape, Subject{}, ""},
		{w1, Scrape, Subject{}, "may not"},
		{m, Scrape, Subject{}, "may not"},
		{w1, FetchFile, Subject{}, ""},
		{ana, FetchFile, Subject{}, ""},
		{m, FetchFile, Subject{}, "may not"},
		{m, Replicate, Subject{}, ""},
		{w1, Replicate, Subject{}, "may not"},
		{ana, Replicate, Subject{}, "may"},
		{root, Replicate, Subject{}, "only a master may"},
		{ana, Serve, Subject{}, "only a worker may"},
		{root, Serve, Subject{}, "only a worker may"},
		{open, Serve, Subject{}, ""},
		{ana, ShareFile, Subject{}, ""},
		{w1, ShareFile, Subject{}, "may not"},
	} {
		err := testRules.May(tt.id, tt.action, tt.on)
		var denied *Denied
		switch {
		case tt.why == "" && err != nil:
			t.Errorf("%v may not %s %+v: %v", tt.id, tt.action, tt.on, err)
		case tt.why != "" && (!errors.As(err, &denied) || !strings.Contains(err.Error(), tt.why)):
			t.Errorf("%v, %s %+v: %v, want %q", tt.id, tt.action, tt.on, err, tt.why)
		}
	}
}

func TestDefaultPoolRule(t *testing.T) {
	r := Rules{Pools: map[string]Pool{"*": {Submit: []string{"ana"}}, "free": {Submit: []string{"*"}}}}
	bob := Identity{User: "bob", Role: User}
	if err := r.May(bob, Submit, Subject{Pool: "any"}); err == nil {
		t.Error("an unlisted pool is open in spite of the rule for all")
	}
	if err := r.May(bob, Submit, Subject{Pool: "free"}); err != nil {
		t.Error(err)
	}
}

// Under any rules an unauthenticated client may do nothing, and a user may change
// other users' jobs only as a manager of the pool.
func TestMayProperty(t *testing.T) {
	names := rapid.SampledFrom([]string{"", "ana", "bob", "*", "@data"})
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.SampledFrom([]string{"ana", "@data", "*"}), 0, 2)
		r := Rules{Pools: map[string]Pool{"p": {Submit: list.Draw(t, "submit"), Manage: list.Draw(t, "manage")}}}
		a := rapid.SampledFrom([]Action{View, Submit, Change, Move, Policy, Nodes, Members, Serve, ShareFile, FetchFile, Scrape, ReadLogs, Drive, "something new"}).Draw(t, "action")
		s := Subject{Job: "j1", Owner: names.Draw(t, "owner"), Pool: "p", From: "q"}
		id := Identity{User: names.Draw(t, "user"), Role: rapid.SampledFrom([]Role{"", User, Worker, Admin}).Draw(t, "role")}
		err := r.May(id, a, s)
		switch {
		case err != nil:
		case id.Role == "":
			t.Fatal("nobody may", a)
		case id.Role == Worker && a != Serve && a != FetchFile:
			t.Fatal("a worker may", a)
		case id.Role == User && (a == Policy || a == Nodes || a == Members || a == Serve || a == ReadLogs || a == Drive || a == "something new"):
			t.Fatal("a user may", a)
		case id.Role == User && a == Move && id.User != s.Owner:
			t.Fatalf("%v may move %+v", id, s)
		}
	})
}

func TestLoadRules(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rules.yaml")
	for _, tt := range []struct{ text, fails string }{
		{"pools:\n  etl: {submit: [ana, \"@data\"], manage: [ops]}\n", ""},
		{"pools:\n  etl: {sumbit: [ana]}\n", "sumbit"},
		{"pools:\n  etl: {submit: [\"\"]}\n", "empty name"},
		{"pools: 3\n", "rules.yaml"},
	} {
		if err := os.WriteFile(name, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := LoadRules(name)
		if tt.fails == "" && (err != nil || len(r.Pools["etl"].Submit) != 2) {
			t.Errorf("%q: %+v, %v", tt.text, r, err)
		}
		if tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.fails)
		}
	}
}
