// SPDX-License-Identifier: Apache-2.0

package conformance

// accessSections are "Authentication" and "Events".
var accessSections = []section{
	{title: "Authentication", items: 12, statements: []statement{
		{"1", "POST /login with e-mail and password gives a JWT.", "login/token is a JWT", ""},
		{"2", "Every later request carries Authorization: Bearer and the token.", "authentication/the token of a login opens protected endpoints", ""},
		{"3", "With MFA, login says mfaRequired and gives a pre-MFA token.", "authentication/MFA makes login say mfaRequired", ""},
		{"3", "A pre-MFA token is valid for the MFA endpoints only.", "authentication/a pre-MFA token opens no protected endpoint", ""},
		{"3", "send-otp, then verify-otp with the code, gives a full-access JWT for all later calls.", "authentication/MFA from the pre-MFA token to full access", ""},
		{"4", "A pre-MFA token elsewhere is refused with MFA_REQUIRED.", "errors/MFA_REQUIRED for a pre-MFA token", ""},
		{"5", "A missing token gives 401 INVALID_TOKEN.", "errors/INVALID_TOKEN for a missing token", ""},
		{"5", "An expired token gives 401 INVALID_TOKEN.", "errors/INVALID_TOKEN for an expired token", ""},
		{"5", "A wrongly signed token gives 401 INVALID_TOKEN.", "errors/INVALID_TOKEN for a wrongly signed token", ""},
		{"6", "A valid token for an action that the user may not perform gives 403.", "status/403 for an action the user may not perform", ""},
		{"7", "A token of /login is valid for 8 hours.", "authentication/a token lives 8 hours", ""},
		{"7", "After that the client logs in again.", "authentication/after expiry another login helps", ""},
		{"7", "Long-running clients refresh before expiry, for example after 7 hours.", "client/refreshes the token after 7 hours", ""},
		{"8", "POST /reset-password sends a link with a token to the e-mail.", "endpoints/POST reset-password", ""},
		{"8", "POST /reset-password/{RESET_PASSWORD_TOKEN} sets a new password.", "endpoints/POST reset-password token", ""},
		{"9", "Only HTTPS is accepted.", "service/plain HTTP is rejected", ""},
		{"9", "The client refuses a base URL that is not HTTPS.", "client/talks HTTPS only", ""},
		{"10", "A portal user for each automation system is advised.", "", advice},
		{"11", "Roles other than Administrator.", "", notShown},
		{"12", "Lifetime of the pre-MFA token.", "", notShown},
	}},
	{title: "Events", statements: []statement{
		{"-", "Events, webhooks and notifications.", "", notShown},
	}},
}
