// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

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
