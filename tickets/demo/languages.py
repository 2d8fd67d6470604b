"""Tickets in other languages than English, two of them written from right to left."""

from __future__ import annotations

from tickets.demo.script import DemoTicket

TICKETS = (
    DemoTicket(
        number=1020,
        subject="Rechnung kommt ohne Bestellnummer, Buchhaltung lehnt ab",
        requester="Sabine Krüger",
        email="s.krueger@muellheim-technik.example",
        language="de",
        assignee="grace",
        opened_hours=75,
        quiet_hours=18,
        conversation="""
--- customer
Guten Tag, auf den Rechnungen fehlt seit August unsere Bestellnummer 4500-118-22. Unsere Buchhaltung weist
solche Rechnungen zurück, inzwischen sind drei offen und die Mahnung ist auch schon da. Könnten Sie die
Nummer ergänzen und die drei Rechnungen neu ausstellen?
--- grace
Guten Tag Frau Krüger, das ist ärgerlich, bitte entschuldigen Sie. Die Nummer steht im Vertrag, nicht aber
im Rechnungsprofil. Ich habe sie nachgetragen und die Mahnung gestoppt. Die drei Rechnungen stelle ich neu
aus, sobald Sie mir die Lieferanschrift bestätigen: weiterhin Werkstraße 4 in Müllheim?
--- customer
Die Anschrift stimmt. Bitte an rechnung@muellheim-technik.example, nicht an mich, ich bin ab Montag zwei
Wochen weg.
""",
    ),
    DemoTicket(
        number=1021,
        subject="Datenschutz: Wo genau liegen unsere Daten?",
        requester="Dr. Jonas Feuerbach",
        email="datenschutz@stadtwerke-lindau.example",
        language="de",
        status="waiting",
        assignee="ada",
        opened_hours=330,
        quiet_hours=160,
        conversation="""
--- customer
Sehr geehrte Damen und Herren, für unser Verzeichnis der Verarbeitungstätigkeiten benötige ich: Standort der
Rechenzentren, Liste der Unterauftragnehmer, Löschfristen der Sicherungen. Bitte schriftlich.
--- ada
Sehr geehrter Herr Dr. Feuerbach, die Rechenzentren stehen in Frankfurt und Dublin. Die Liste der
Unterauftragnehmer und die Löschfristen (30 Tage) habe ich Ihnen als unterschriebenes PDF beigefügt. Fehlt
Ihnen noch etwas?
""",
    ),
    DemoTicket(
        number=1022,
        subject="Mobile App stürzt beim Öffnen von Fotos ab",
        requester="Murat Yıldız",
        email="murat@yildiz-bau.example",
        language="de",
        priority="high",
        assignee="alan",
        opened_hours=21,
        quiet_hours=3.5,
        conversation="""
--- customer
Moin, seit dem Update gestern stürzt die App ab, sobald jemand ein Foto vom Baustellentagebuch öffnet.
Android 14, bei allen acht Bauleitern gleich. Ohne Fotos keine Abnahme, ohne Abnahme kein Geld 😬
--- alan
Moin Herr Yıldız, ich kann es nachstellen: Es trifft Fotos mit mehr als 12 Megapixeln. Bis zum Fix hilft es,
in der App unter „Kamera“ die mittlere Auflösung zu wählen. Ein Update ist für morgen früh eingeplant.
--- customer
Das hilft für neue Fotos. Die 40 alten von heute brauche ich aber zur Abnahme um 16 Uhr. Können Sie die
verkleinern?
""",
    ),
    DemoTicket(
        number=1023,
        subject="Impossible de modifier le taux de TVA sur les devis",
        requester="Élodie Marchand",
        email="elodie.marchand@menuiserie-caron.example",
        language="fr",
        assignee="grace",
        opened_hours=46,
        quiet_hours=11,
        conversation="""
--- customer
Bonjour, nous devons passer de 20 % à 10 % sur les devis de rénovation. Le champ est grisé, même pour moi
qui suis administratrice. J'ai un devis de 18 400 € à envoyer ce soir.
--- grace
Bonjour Élodie, le champ se verrouille quand le devis vient d'un modèle. Vous pouvez dupliquer le devis «
sans modèle » et changer le taux : cela vous dépannera pour ce soir. Voulez-vous que j'ajoute un modèle à 10
% ?
--- customer
Oui, avec plaisir ! Et si possible le texte légal de l'attestation simplifiée, on l'oublie toujours.
""",
    ),
    DemoTicket(
        number=1024,
        subject="Accès perdu après le départ de notre administrateur",
        requester="Bakary Traoré",
        email="b.traore@cooperative-sahel.example",
        language="fr",
        priority="high",
        assignee="ada",
        opened_hours=33,
        quiet_hours=6,
        conversation="""
--- customer
Bonjour. Notre unique administrateur a quitté la coopérative et sa boîte aux lettres est fermée. Personne ne
peut plus ajouter d'utilisateurs. Les paies de 112 personnes passent par Tessera, la prochaine est vendredi.
--- ada
Bonjour Monsieur Traoré, nous pouvons transférer les droits. Il me faut un document signé par un
représentant légal et une vérification par téléphone au numéro du contrat. Le formulaire est joint.
--- customer
Le formulaire est signé par la présidente et renvoyé ce matin. Le numéro du contrat n'existe plus, voici le
nouveau : +223 20 22 48 15. Est-ce que cela va bloquer ?
""",
    ),
    DemoTicket(
        number=1025,
        subject="El informe mensual no incluye las devoluciones",
        requester="Lucía Herrero",
        email="lucia.herrero@almacenessol.example",
        language="es",
        assignee="alan",
        opened_hours=58,
        quiet_hours=27,
        conversation="""
--- customer
¡Hola! El informe de octubre suma 214.300 €, pero no resta las devoluciones (9.870 €). En septiembre sí lo
hacía. ¿Ha cambiado algo?
--- alan
Hola, Lucía: sí, desde octubre las devoluciones van en una columna aparte, y el total de tu plantilla
antigua no la conoce. He actualizado una copia de tu plantilla; ¿me confirmas que el total es 204.430 €?
--- customer
Sí, cuadra al céntimo. ¿Podéis cambiar también las plantillas de las otras tres tiendas? Las llevan personas
que no entran en la configuración ni locas. 😅
""",
    ),
    DemoTicket(
        number=1026,
        subject="Necesitamos factura electrónica para la administración pública",
        requester="Ayuntamiento de Valdeazores",
        email="compras@valdeazores.example",
        language="es",
        priority="low",
        assignee=None,
        opened_hours=110,
        quiet_hours=110,
        conversation="""
--- customer
Buenos días. Como administración pública solo podemos pagar facturas en formato Facturae con los códigos
DIR3 que adjuntamos. ¿Las emiten ustedes? En caso contrario no podremos renovar en enero.
""",
    ),
    DemoTicket(
        number=1027,
        subject="Kirjautuminen Suomi.fi-tunnistuksella ei toimi",
        requester="Aino Mäkelä",
        email="aino.makela@jarvenrannankunta.example",
        language="fi",
        priority="high",
        assignee="ada",
        opened_hours=17,
        quiet_hours=2.2,
        conversation="""
--- customer
Hei, työntekijämme eivät pääse kirjautumaan Suomi.fi-tunnistuksella tänä aamuna. Selain jää pyörimään
valkoiselle sivulle. Tavallinen salasana toimii, mutta sitä on vain kolmella.
--- ada
Hei Aino, kiitos ilmoituksesta. Näen, että vastaus tunnistuspalvelusta tulee perille, mutta sen kello on
kaksi minuuttia edellä, ja hylkäämme sen. Onko kunnan välityspalvelimeen koskettu viime yönä?
--- customer
IT kertoo, että palvelin käynnistettiin uudelleen klo 5.40 ja kello jäi väärään aikaan. He korjaavat sen
nyt. Voisitteko silti sallia pienen heiton, ettei näin käy palkkapäivänä?
""",
    ),
    DemoTicket(
        number=1028,
        subject="Laskutusosoitteen muutos",
        requester="Pekka Väisänen",
        email="pekka@vaisasenpuu.example",
        language="fi",
        status="closed",
        priority="low",
        assignee="grace",
        opened_hours=440,
        quiet_hours=430,
        conversation="""
--- customer
Moi! Muutimme Kuopioon. Uusi laskutusosoite on Puijonkatu 12 B, 70110 Kuopio.
--- grace
Moi Pekka, osoite on vaihdettu ja näkyy jo seuraavalla laskulla. Onnea uusiin tiloihin!
""",
    ),
    DemoTicket(
        number=1029,
        subject="請求書のPDFで会社名の「髙」が文字化けします",
        requester="髙橋 美咲",
        email="takahashi@sakuraseiki.example",
        language="ja",
        assignee="alan",
        opened_hours=63,
        quiet_hours=14,
        conversation="""
--- customer
お世話になっております。
桜精機の髙橋です。
請求書のPDFで、社名の「髙」（はしごだか）が「□」になってしまいます。
画面上では正しく表示されます。
経理から差し戻されて困っております。
ご確認をお願いいたします。
--- alan
髙橋様、ご連絡ありがとうございます。
PDFに埋め込む書体にこの文字が入っていないことが原因でした。
書体を入れ替えた請求書をお送りします。
--- customer
ありがとうございます。
「髙」は直りましたが、今度は住所の「﨑」が同じ状態です。
🙇‍♀️ 他の文字もまとめて確認していただけますか。
""",
    ),
    DemoTicket(
        number=1030,
        subject="承認フローの代理設定について",
        requester="森田 健",
        email="morita@hokushin-foods.example",
        language="ja",
        status="waiting",
        priority="low",
        assignee="grace",
        opened_hours=130,
        quiet_hours=101,
        conversation="""
--- customer
部長が来月から一か月休暇に入ります。
その間、承認を課長が代理で行えるように設定できますか。
通知も課長だけに届くようにしたいです。
--- grace
森田様、「代理承認」で期間を指定できます。
通知先も同じ画面で切り替えられます。
休暇の初日と最終日を教えていただければ、こちらで設定いたします。
""",
    ),
    DemoTicket(
        number=1031,
        subject="التقارير العربية تظهر معكوسة في ملف PDF",
        requester="ليلى حداد",
        email="layla.haddad@zaytoun-trading.example",
        language="ar",
        priority="high",
        assignee="alan",
        opened_hours=37,
        quiet_hours=4.6,
        conversation="""
--- customer
مرحباً، عندما نصدّر تقرير المبيعات إلى PDF تظهر الكلمات العربية معكوسة والحروف منفصلة. أمّا على الشاشة فكل
شيء صحيح. لدينا اجتماع مجلس الإدارة يوم الأحد ونحتاج إلى التقرير رقم Q3-2024 مطبوعاً.
--- alan
مرحباً ليلى، شكراً على الصور. المشكلة في مكتبة الطباعة بعد تحديث الأسبوع الماضي. أستطيع أن أُعدّ لكم التقرير
يدوياً اليوم. هل يكفيكم الربع الثالث وحده؟
--- customer
نعم، الربع الثالث يكفي الآن. لكن لدينا 14 فرعاً يطبعون كل صباح، فمتى يكون الإصلاح للجميع؟ 🙏
""",
    ),
    DemoTicket(
        number=1032,
        subject="תאריכי החגים לא מופיעים ביומן המשמרות",
        requester="נועה ברק",
        email="noa@galim-clinic.example",
        language="he",
        assignee=None,
        opened_hours=28,
        quiet_hours=28,
        conversation="""
--- customer
שלום, הוספנו את לוח החגים של ישראל אבל הוא לא מופיע ביומן המשמרות, רק בתצוגת החודש. בגלל זה שובצו שלוש אחיות
ליום שבו המרפאה סגורה. אפשר לתקן, או לפחות להציג אזהרה?
""",
    ),
    DemoTicket(
        number=1033,
        subject="Integração com o ERP parou de enviar pedidos",
        requester="Rafael Monteiro",
        email="rafael@cafedaserra.example",
        language="pt",
        priority="high",
        assignee="alan",
        opened_hours=12,
        quiet_hours=1.8,
        conversation="""
--- customer
Bom dia! Desde ontem às 18h nenhum pedido chega ao ERP. A tela de integração diz "conectado" com uma bolinha
verde muito bonita, mas a fila tem 412 pedidos parados.
--- alan
Bom dia, Rafael. O token do ERP expirou às 18:00; a bolinha só mostra que o endereço responde. Se você gerar
um token novo, a fila é enviada em ordem, sem duplicar nada.
--- customer
Token novo colocado. 300 foram, 112 voltaram com "cliente não encontrado". São os clientes cadastrados hoje.
A ordem importa: primeiro o cliente, depois o pedido!
""",
    ),
    DemoTicket(
        number=1034,
        subject="Dubbele meldingen bij elke taak",
        requester="Anouk de Wit",
        email="anouk@dewit-events.example",
        language="nl",
        priority="low",
        assignee="grace",
        opened_hours=84,
        quiet_hours=49,
        conversation="""
--- customer
Hoi! Ik krijg van elke taak twee meldingen: één als eigenaar en één als volger. Dat zijn er op een drukke
dag zo'n 300. Kan dat samen in één?
--- grace
Hoi Anouk, ja: onder Meldingen → Samenvoegen. Staat standaard uit omdat sommige teams beide willen zien. Zal
ik het voor jullie hele team aanzetten?
""",
    ),
    DemoTicket(
        number=1035,
        subject="Prośba o przedłużenie okresu próbnego",
        requester="Agnieszka Zielińska",
        email="a.zielinska@drukarnia-wisla.example",
        language="pl",
        status="closed",
        priority="low",
        assignee="ada",
        opened_hours=500,
        quiet_hours=470,
        conversation="""
--- customer
Dzień dobry, okres próbny kończy się jutro, a nasz informatyk wraca z urlopu dopiero w czwartek. Czy można
przedłużyć o tydzień?
--- ada
Dzień dobry, oczywiście. Przedłużyłam o czternaście dni, żeby nie trzeba było się spieszyć. Powodzenia!
--- customer
Bardzo dziękuję! 🌷
""",
    ),
    DemoTicket(
        number=1036,
        subject="Không nhập được tên có dấu trong biểu mẫu đăng ký",
        requester="Nguyễn Thị Hạnh",
        email="hanh.nguyen@sao-mai-travel.example",
        language="vi",
        assignee="alan",
        opened_hours=24,
        quiet_hours=10,
        conversation="""
--- customer
Chào anh chị, biểu mẫu đăng ký báo lỗi "ký tự không hợp lệ" khi khách nhập tên có dấu, ví dụ "Nguyễn Thị
Hạnh". Khách phải viết không dấu, và vé máy bay thì không khớp hộ chiếu.
--- alan
Hello, thank you for the clear example (I will answer in English, our Vietnamese speaker is back tomorrow).
The form's pattern allows Latin letters only. You can switch the pattern off under Form → Name → Validation.
I will ask for a better default.
""",
    ),
)
