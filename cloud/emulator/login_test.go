// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

func parse(t *testing.T, token string) jwt.Claims {
	t.Helper()
	parsed, _, err := jwt.NewParser().ParseUnverified(token, jwt.MapClaims{})
	must(t, err)
	return parsed.Claims
}

// TestUsersThatCannotBe checks that invalid users are refused at the start, and that the errors contain no secrets.
func TestUsersThatCannotBe(t *testing.T) {
	const canary = "canary-%"
	for name, users := range map[string][]emulator.User{
		"no e-mail":  {{Password: canary}},
		"twice":      {{Email: "a@portal.example", Password: canary}, {Email: "A@portal.example", Password: canary}},
		"wrong seed": {{Email: "a@portal.example", TOTPSeed: canary}},
	} {
		_, err := emulator.New(emulator.Options{Users: users})
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
	u := emulator.User{Email: "a@portal.example", Password: canary, TOTPSeed: canary}
	if text := fmt.Sprintf("%v %+v %#v %s", u, u, u, []emulator.User{u}); strings.Contains(text, "canary") {
		t.Errorf("a user prints as %s", text)
	}
}

// TestAccounts checks that lists show only resources of the account, and that no request may name those of another one. conformance checks
// ids in paths.
func TestAccounts(t *testing.T) {
	users := []emulator.User{{Email: "a@portal.example", Password: "p", Account: "a"}, {Email: "b@portal.example", Password: "p", Account: "b"}}
	bubble(t, emulator.Options{Users: users, ListClusters: true}, func(t *testing.T, p *emulator.Portal, a *caller) {
		id := a.create(a.newCluster(1))
		network := a.post("/networks", `{"cidr":"10.1.0.0/24"}`).want(201).text("network", "id")
		vpc := a.wait(a.post("/vpcs", `{"name":"mine"}`).want(202).text("jobId")).text("result", "vpc", "id")
		b := loginAs(t, p, "b@portal.example", "p")
		for list, mine := range map[string]string{"/vpcs?name=mine": vpc, "/instances": id, "/kubernetes-clusters": id, "/kubernetes-clusters?name=demo": id} {
			for c, want := range map[*caller]bool{a: true, b: false} {
				if r := c.get(list).want(200); strings.Contains(string(r.raw), mine) != want {
					t.Errorf("%s, of its owner %t: %s", list, want, r.raw)
				}
			}
		}
		b.post("/kubernetes-clusters", b.newCluster(1).with("networkId", network).String()).refused(400, emulator.CodeInvalidParameter).has("networkId", "error", "field")
		b.post("/kubernetes-clusters", a.newCluster(1).String()).refused(400, emulator.CodeInvalidParameter).has("vpcId", "error", "field")
	})
}

// TestResetPassword checks that the link in the mail works once and for an hour, and ends the user's sessions.
func TestResetPassword(t *testing.T) {
	bubble(t, emulator.Options{}, func(t *testing.T, p *emulator.Portal, c *caller) {
		user, _ := p.Credentials()
		link := func(email string) string {
			c.post("/reset-password", `{"email":"`+email+`"}`).want(200)
			if mails := p.Mailbox(email); len(mails) > 0 {
				return "/reset-password/" + mails[len(mails)-1].ResetToken
			}
			return ""
		}
		if sent := link("nobody@portal.example"); sent != "" {
			t.Errorf("mail to an unknown user: %s", sent)
		}
		first := link(user)
		c.get("/vpcs").want(200)
		c.post(first, `{"password":"new"}`).want(200)
		c.get("/vpcs").refused(401, emulator.CodeInvalidToken)
		c.post(first, `{"password":"newer"}`).refused(404, emulator.CodeResourceNotFound)
		late := link(user)
		time.Sleep(time.Hour)
		c.post(late, `{"password":"newest"}`).refused(404, emulator.CodeResourceNotFound)
	})
}
