return { status = "Suspended", message = "every kind of " .. obj.apiVersion }
