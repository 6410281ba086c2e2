package agent

import (
	"testing"

	"google.golang.org/protobuf/proto"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// FuzzAnswers gives an agent any answers of a master to its registration and to its
// heartbeats. It must not panic, and must list each attempt once.
func FuzzAnswers(f *testing.F) {
	encode := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	registered := encode(&slotwisev1.RegisterResponse{Session: "s"})
	answer := encode(&slotwisev1.HeartbeatResponse{Actions: []*slotwisev1.Action{
		{Number: 1, What: &slotwisev1.Action_Launch{Launch: &slotwisev1.Launch{Attempt: "j1_m_0_0"}}},
		{Number: 2, What: &slotwisev1.Action_Launch{Launch: &slotwisev1.Launch{Attempt: "j1_m_1_0", Staging: "x"}}},
		{Number: 3, What: &slotwisev1.Action_Kill{Kill: &slotwisev1.Kill{Attempt: "j1_m_0_0"}}},
		{Number: 4, What: &slotwisev1.Action_DropJob{DropJob: "j1"}},
	}})
	f.Add(registered, answer, registered, answer)
	f.Add(registered, []byte{}, []byte("\xff"), answer)
	f.Fuzz(func(t *testing.T, register1, answer1, register2, answer2 []byte) {
		g := New()
		for i, b := range [][]byte{register1, answer1, register2, answer2} {
			if i%2 == 0 {
				r := &slotwisev1.RegisterRequest{}
				g.Registration(r, g.Listed(), nil)
				var a slotwisev1.RegisterResponse
				if proto.Unmarshal(b, &a) == nil {
					g.Registered(&a, i > 0)
				}
				continue
			}
			h := g.Heartbeat(0, nil)
			var a slotwisev1.HeartbeatResponse
			if proto.Unmarshal(b, &a) == nil {
				g.Acknowledge(h)
				g.Act(a.GetActions(), 0)
			}
		}
		seen := map[string]bool{}
		for _, id := range g.Listed() {
			if seen[id.String()] {
				t.Errorf("%v is listed twice", id)
			}
			seen[id.String()] = true
			g.End(id, slotwisev1.AttemptState_ATTEMPT_STATE_FAILED, "", "", nil)
		}
		g.Heartbeat(0, nil)
	})
}
