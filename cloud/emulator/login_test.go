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

func TestLogin(t *testing.T) {
	p := newPortal(t, emulator.Options{Users: []emulator.User{{ID: "user-1", Email: "Ops@portal.example", Password: "right"}}})
	c := &caller{t: t, p: p}
	c.post("/login", `{"email":"ops@portal.example","password":"right"}`).want(200).
		has("user-1", "user", "id").has("Ops@portal.example", "user", "email").has("Administrator", "user", "role").has(false, "mfaRequired")
	c.post("/login", `{"email":"ops@portal.example","password":"wrong"}`).refused(401, emulator.CodeInvalidCredentials)
	c.post("/login", `{"email":"nobody@portal.example","password":"right"}`).refused(401, emulator.CodeInvalidCredentials)
	c.post("/login", `{"email":"ops@portal.example"}`).refused(400, emulator.CodeInvalidParameter).has("password", "error", "field")
}

func parse(t *testing.T, token string) jwt.Claims {
	t.Helper()
	parsed, _, err := jwt.NewParser().ParseUnverified(token, jwt.MapClaims{})
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Claims
}

// TestInvalidTokens checks which tokens are refused (Authentication 5). cloud/conformance checks that every protected endpoint asks for one.
func TestInvalidTokens(t *testing.T) {
	p := newPortal(t, emulator.Options{})
	valid := login(t, p)
	other := login(t, newPortal(t, emulator.Options{}))
	claims := parse(t, valid.token)
	resigned, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte("another key"))
	if err != nil {
		t.Fatal(err)
	}
	unsigned, err := jwt.NewWithClaims(jwt.SigningMethodNone, claims).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	headers := map[string]string{
		"missing": "", "empty": "Bearer ", "no JWT": "Bearer abc", "another scheme": "Basic " + valid.token,
		"another portal's": "Bearer " + other.token, "wrongly signed": "Bearer " + resigned, "unsigned": "Bearer " + unsigned,
		"tampered with": "Bearer " + valid.token[:len(valid.token)-4] + "AAAA",
	}
	for name, header := range headers {
		t.Run(name, func(t *testing.T) {
			c := &caller{t: t, p: p}
			r := c.request("GET", "/vpcs", "")
			r.Header.Set("Authorization", header)
			c.send(r).refused(401, emulator.CodeInvalidToken)
		})
	}
}

// TestAccounts checks that lists show only resources of the account, and that others return 404 (HTTP status codes, 404).
func TestAccounts(t *testing.T) {
	users := []emulator.User{{Email: "a@portal.example", Password: "p", Account: "a"}, {Email: "b@portal.example", Password: "p", Account: "b"}}
	opts := emulator.Options{Users: users, VolumesPerCluster: 1, ListClusters: true}
	bubble(t, opts, func(t *testing.T, p *emulator.Portal, a *caller) {
		id := a.create(a.newCluster(1))
		a.get("/kubernetes-clusters?name=demo").want(200).has(id, "kubernetesClusters", 0, "id")
		a.get("/kubernetes-clusters?name=other").want(200).has(nil, "kubernetesClusters", 0)
		network := a.post("/networks", `{"cidr":"10.1.0.0/24"}`).want(201).text("network", "id")
		vpc := a.wait(a.post("/vpcs", `{"name":"mine"}`).want(202).text("jobId")).text("result", "vpc", "id")
		a.get("/vpcs?name=mine").want(200).has(vpc, "vpcs", 0, "id").has(nil, "vpcs", 1)
		b := loginAs(t, p, "b@portal.example", "p")
		b.get("/vpcs?name=mine").want(200).has(nil, "vpcs", 0)
		for _, endpoint := range []string{
			"GET /jobs/" + p.Jobs()[0].ID, "GET /instances/" + p.Instances()[0].ID, "DELETE /volumes/" + p.Volumes()[0].ID,
			"GET /kubernetes-clusters/" + id + "/config", "DELETE /kubernetes-clusters/" + id,
		} {
			method, path, _ := strings.Cut(endpoint, " ")
			b.do(method, path, "").refused(404, emulator.CodeResourceNotFound)
		}
		b.post("/kubernetes-clusters/"+id+"/scale", `{"size":1}`).refused(404, emulator.CodeResourceNotFound)
		b.post("/kubernetes-clusters/"+id+"/upgrade", b.versionBody("v1.36.3")).refused(404, emulator.CodeResourceNotFound)
		b.post("/kubernetes-clusters", b.newCluster(1).with("networkId", network).String()).refused(400, emulator.CodeInvalidParameter).has("networkId", "error", "field")
		b.post("/kubernetes-clusters", a.newCluster(1).String()).refused(400, emulator.CodeInvalidParameter).has("vpcId", "error", "field")
		for _, list := range []string{"/instances", "/kubernetes-clusters"} {
			if raw := string(b.get(list).want(200).raw); strings.Contains(raw, id) {
				t.Errorf("%s shows another account's: %s", list, raw)
			}
		}
	})
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

// TestResetPassword checks the reset by the link in the mail, which works once and for an hour.
func TestResetPassword(t *testing.T) {
	bubble(t, emulator.Options{}, func(t *testing.T, p *emulator.Portal, c *caller) {
		email, old := p.Credentials()
		open := &caller{t: t, p: p}
		open.post("/reset-password", `{"email":"nobody@portal.example"}`).want(200)
		if mail := p.Mailbox("nobody@portal.example"); len(mail) != 0 {
			t.Errorf("mail to an unknown user: %v", mail)
		}
		open.post("/reset-password", `{"email":"`+email+`"}`).want(200)
		link := "/reset-password/" + p.Mailbox(email)[0].ResetToken
		c.get("/vpcs").want(200)
		open.post(link, `{"password":"new"}`).want(200)
		c.get("/vpcs").refused(401, emulator.CodeInvalidToken)
		open.post("/login", `{"email":"`+email+`","password":"`+old+`"}`).refused(401, emulator.CodeInvalidCredentials)
		loginAs(t, p, email, "new").get("/vpcs").want(200)
		open.post(link, `{"password":"newer"}`).refused(404, emulator.CodeResourceNotFound)

		open.post("/reset-password", `{"email":"`+email+`"}`).want(200)
		time.Sleep(time.Hour)
		open.post("/reset-password/"+p.Mailbox(email)[1].ResetToken, `{"password":"newest"}`).refused(404, emulator.CodeResourceNotFound)
	})
}
